# A pod's preStop hook: bash drain.sh SETTLE_S DRAIN_S
# First ask callers to close their connections and go on serving until load balancers have let go;
# then stop listening and wait, at most DRAIN_S, until nothing is in flight. Envoy's image has bash
# and no HTTP client.
settle_s=$1 drain_s=$2 port=${ADMIN_PORT:-9901}

admin() { # METHOD PATH
  exec 3<>"/dev/tcp/127.0.0.1/$port" || return
  printf '%s %s HTTP/1.1\r\nHost: drain\r\nContent-Length: 0\r\nConnection: close\r\n\r\n' "$1" "$2" >&3
  cat <&3
  exec 3>&-
}

in_flight() {
  admin GET '/stats?filter=%5Ehttp.edge.downstream_rq_active%24' |
    sed -n 's/^http\.edge\.downstream_rq_active: //p' | tr -d '\r'
}

admin POST /healthcheck/fail >/dev/null
sleep "$settle_s"
admin POST '/drain_listeners?graceful' >/dev/null
give_up=$((SECONDS + drain_s))
while [ "$SECONDS" -lt "$give_up" ]; do
  [ "$(in_flight)" = 0 ] && break
  sleep 0.5
done
