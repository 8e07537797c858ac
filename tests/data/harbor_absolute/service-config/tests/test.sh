#!/bin/bash
wanted=$(printf '# service\nname = demo\nlisten = 8080\ndata = /var/lib/service\n')
if [ "$(cat /opt/service/service.conf)" = "$wanted" ] && [ -x /opt/service/start.sh ] &&
    [ "$(cat /opt/service/message)" = welcome ] && [ "$(pwd)" = /var/lib/service ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
