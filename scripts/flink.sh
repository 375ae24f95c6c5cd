#!/usr/bin/env bash
# Fetches Flink as a library, for a cluster inside one process: what deploy/flink/pom.xml names, each jar checked
# against deploy/flink/jars.sha256. Quick when it is there. Nothing is started.
#
#   scripts/flink.sh --write-checksums   take down the checksums of what was fetched, after a change of the pom
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tierlock # internal/servers looks here too
pom=deploy/flink/pom.xml
sums=$PWD/deploy/flink/jars.sha256
flink=$(sed -n 's:.*<flink.version>\(.*\)</flink.version>.*:\1:p' "$pom")
place=$cache/flink-$flink

have() { command -v "$1" >/dev/null 2>&1; }
for tool in java javac mvn; do
  have "$tool" || { echo "flink: $tool is missing (Debian: default-jdk-headless, maven)" >&2; exit 1; }
done

# A folder beside the place is filled and then given its name, so that an interrupted run
# leaves nothing that looks whole.
new=
trap 'rm -rf -- "$new"' EXIT

# Checksums that Maven itself finds wrong end the run (-C); ours are of the whole set.
if [ ! -d "$place/lib" ]; then
  mkdir -p "$cache"
  new=$(mktemp -d "$cache/.flink.XXXXXX")
  mvn -q -B -C -f "$pom" dependency:copy-dependencies -DoutputDirectory="$new/lib"
  if [ "${1:-}" = --write-checksums ]; then
    (cd "$new/lib" && sha256sum -- *.jar) >"$sums"
  fi
  (cd "$new/lib" && sha256sum --quiet --strict -c "$sums" && [ "$(ls | wc -l)" = "$(wc -l <"$sums")" ]) ||
    { echo "flink: the jars are not those of deploy/flink/jars.sha256" >&2; exit 1; }
  chmod 0755 "$new"
  mv -T "$new" "$place"
fi
echo "flink       $flink, $(ls "$place/lib" | wc -l) jars, $(du -sm "$place/lib" | cut -f1) MB"
