#!/bin/sh
set -eu
cd "${WORKSPACE:-/app}"
cat > sort-downloads.sh <<'SCRIPT'
#!/bin/sh
[ $# -eq 1 ] && [ -d "$1" ] || exit 2
cd -- "$1" || exit 2
moved=0
for name in *; do
    [ -f "$name" ] && [ ! -L "$name" ] || continue
    case $name in
        *.) folder=other ;;
        *.*) folder=$(printf '%s' "${name##*.}" | tr '[:upper:]' '[:lower:]') ;;
        *) folder=other ;;
    esac
    [ -e "./$folder/$name" ] || [ -L "./$folder/$name" ] && continue
    mkdir -p -- "./$folder" && mv -- "./$name" "./$folder/$name" && moved=$((moved + 1))
done
echo "$moved"
exit 0
SCRIPT
