#!/usr/bin/env bash
# Runs this checkout's HEAD on a Debian that has only git and the Node.js and npm of its release, and measures it:
#
#   sudo scripts/fresh-machine.sh [RELEASE [COMMAND...]]      default: bookworm, and `npm run up` until hello answers
#
# The machine is a folder that debootstrap fills, with its own namespaces for processes, mounts and network; containers
# of its engine run inside these namespaces. Everything is removed at the end. Needs root, debootstrap, iproute2,
# iptables and git.
set -euo pipefail
release=${1:-bookworm}
shift || true
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d /var/tmp/berth-fresh-XXXXXX)
root=$work/root
name=fresh$$
# The network is a part of 10.250.0.0/16 that depends on the process id, so that several runs can be concurrent.
net=10.250.$(($$ % 250 + 1))

clean_up() {
  ip netns delete "$name" 2>/dev/null || true
  iptables -w -t nat -D POSTROUTING -s "$net.0/24" -j MASQUERADE 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT

echo "making a Debian $release in $root"
debootstrap --variant=minbase --include=ca-certificates,curl "$release" "$root" >"$work/debootstrap.log" ||
  { tail -5 "$work/debootstrap.log" && exit 1; }
cp /etc/resolv.conf "$root/etc/resolv.conf"
# Copies the certificates of authorities that the administrator of this machine has added.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
git clone --quiet "$checkout" "$root/srv/berth"

ip netns add "$name"
ip link add "v$$" type veth peer name eth0 netns "$name"
ip address add "$net.1/24" dev "v$$"
ip link set "v$$" up
ip -n "$name" address add "$net.2/24" dev eth0
ip -n "$name" link set eth0 up
ip -n "$name" link set lo up
ip -n "$name" route add default via "$net.1"
iptables -w -t nat -A POSTROUTING -s "$net.0/24" -j MASQUERADE

cat >"$root/root/measure.sh" <<'EOF'
cd /srv/berth
received() { cat /sys/class/net/eth0/statistics/rx_bytes; }
apt-get update -qq && apt-get install -qqy --no-install-recommends nodejs npm git >/tmp/apt.log 2>&1
echo "Node.js $(node --version), npm $(npm --version 2>/dev/null)"
bytes=$(received) start=$SECONDS
if [ $# -gt 0 ]; then
  "$@" || echo "exit code $?"
else
  npm run up </dev/null >/tmp/up.log 2>&1 &
  until curl -sf -o /dev/null http://hello.localhost || ! kill -0 $!; do sleep 0.5; done
  cat /tmp/up.log
  curl -sS -o /dev/null -w 'hello answers %{http_code}\n' http://hello.localhost
fi
echo "$((SECONDS - start)) s, $((($(received) - bytes) / 1000000)) MB received"
EOF

nsenter --net="/run/netns/$name" unshare --mount --pid --fork --kill-child bash -c '
  root=$1; shift
  mount --make-rprivate /
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/run"
  exec env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt npm_config_cafile=/etc/ssl/certs/ca-certificates.crt \
    chroot "$root" bash /root/measure.sh "$@"' - "$root" "$@"
