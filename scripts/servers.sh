#!/usr/bin/env bash
# Installs the real servers that tests run against, as far as they are missing, and says
# what there is. Quick when all is there. Nothing is started.
#
#   TIERLOCK_RNACOS  an rnacos binary, plain or .xz; without it cargo builds one (13 min)
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tierlock # internal/servers looks here too
kafka=4.3.1
slf4j=1.7.36
rnacos=0.8.8

have() { command -v "$1" >/dev/null 2>&1; }
pgbin() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1; }

packages() {
  local missing=()
  have redis-server || missing+=(redis-server)
  have redis-sentinel || missing+=(redis-sentinel)
  [ -n "$(pgbin)" ] || have postgres || missing+=(postgresql)
  have mariadbd || [ -x /usr/sbin/mariadbd ] || missing+=(mariadb-server)
  have promtool || missing+=(prometheus)
  have strace || missing+=(strace)
  have javac || missing+=(default-jdk-headless)
  have mvn || [ -d "$cache/kafka-$kafka" ] || missing+=(maven)
  have xz || [[ ${TIERLOCK_RNACOS:-} != *.xz ]] || missing+=(xz-utils)
  [ ${#missing[@]} -eq 0 ] && return
  if [ "$(id -u)" != 0 ] || ! have apt-get; then
    echo "servers: missing ${missing[*]}: install them (the names are Debian's), or run this as root" >&2
    exit 1
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# Each of the next two fills a folder beside its place and then gives it its name, so that
# an interrupted run leaves nothing that looks whole.
new=
trap 'rm -rf -- "$new"' EXIT

kafka_jars() {
  [ -d "$cache/kafka-$kafka/lib" ] && return
  new=$(mktemp -d "$cache/.kafka.XXXXXX")
  cat >"$new/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tierlock</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$kafka</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>$slf4j</version></dependency>
  </dependencies>
</project>
POM
  mvn -q -B -f "$new/pom.xml" dependency:copy-dependencies -DoutputDirectory="$new/lib"
  mv -T "$new" "$cache/kafka-$kafka"
}

rnacos_binary() {
  [ -x "$cache/rnacos-$rnacos/bin/rnacos" ] && return
  if [ -z "${TIERLOCK_RNACOS:-}" ] && have rnacos; then return; fi
  new=$(mktemp -d "$cache/.rnacos.XXXXXX")
  mkdir "$new/bin"
  case ${TIERLOCK_RNACOS:-} in
    *.xz) xz -dc "$TIERLOCK_RNACOS" >"$new/bin/rnacos" ;;
    ?*) cp "$TIERLOCK_RNACOS" "$new/bin/rnacos" ;;
    *) cargo install rnacos --version "$rnacos" --locked --root "$new" ;;
  esac
  chmod 0755 "$new" "$new/bin/rnacos"
  "$new/bin/rnacos" --version >/dev/null
  mv -T "$new" "$cache/rnacos-$rnacos"
}

versions() {
  local rn=$cache/rnacos-$rnacos/bin/rnacos
  [ -x "$rn" ] || rn=$(command -v rnacos)
  echo "redis       $(redis-server --version | grep -o 'v=[^ ]*' | cut -c3-)"
  echo "postgresql  $("$(pgbin)/postgres" --version 2>/dev/null || postgres --version)"
  echo "mariadb     $("$(command -v mariadbd || echo /usr/sbin/mariadbd)" --version | grep -o 'Ver [^ ]*' | cut -c5-)"
  echo "prometheus  $(promtool --version 2>&1 | head -n 1)"
  echo "java        $(java -version 2>&1 | head -n 1)"
  echo "kafka       $kafka, $(ls "$cache/kafka-$kafka/lib" | wc -l) jars"
  echo "rnacos      $("$rn" --version | head -n 1)"
}

mkdir -p "$cache"
packages
kafka_jars
rnacos_binary
versions
