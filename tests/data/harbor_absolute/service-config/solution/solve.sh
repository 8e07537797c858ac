#!/bin/bash
set -eu
sed -i -e 's/^listen = .*/listen = 8080/' -e "s|^data = .*|data = $(pwd)|" /opt/service/service.conf
