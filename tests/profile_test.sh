#!/usr/bin/env bash
# `ipu profile`: its reports, its exit codes, its JSON against docs/profile-schema.json, and docs/cost.md
# against the table of defaults. Usage: profile_test.sh [IPU]. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"

# exits CODE PATTERN ARGUMENT...: `ipu profile ARGUMENT...` ends with CODE and says PATTERN.
exits()
{
    local expected=$1 pattern=$2 code=0
    shift 2
    "$ipu" profile "$@" > "$box/out" 2> "$box/err" < /dev/null || code=$?
    cat "$box/out" "$box/err"
    [ "$code" = "$expected" ] && grep -qE -- "$pattern" "$box/out" "$box/err"
}

cat > "$box/full.ipu" << 'END'
graph target tiny ipus 1 tiles 4 replication 1 {
  var x float[5000] on 2;
  host_read "x" x;
  program { sync internal; }
}
END

cat > "$box/cycles.ipu" << 'END'
graph target tiny ipus 1 tiles 4 replication 1 {
  codelet Touch { in vector float x }
  var x float[8] on 1;
  compute_set touch { vertex Touch on 1 cycles 20 { x = x } }
  program { execute touch; }
}
END

for file in tests/text/adder.ipu tests/text/control.ipu tests/text/views.ipu; do
    check "$(basename "$file") has a report" exits 0 '^Execution' "$file"
done
check "steps are listed when asked" exits 0 'execute add  tests/text/adder' --steps tests/text/adder.ipu
check "loops count as asked" exits 0 'counted 9 times' --steps --while-count 9 tests/text/control.ipu
check "a full tile is told" exits 0 'tile 2: 4960 bytes over; largest: "x" 20000' "$box/full.ipu"
check "a full tile fails if strict" exits 1 'tile 2 of 4 is over-full by 4960 bytes' --strict "$box/full.ipu"
check "a full tile has a report even so" exits 1 'over-full tiles      1' --strict "$box/full.ipu"
# 11 to launch, 6 workers in turn
check "cycles of the text are used" exits 0 '^  compute +131 cycles' "$box/cycles.ipu"
check "a file that is missing" exits 1 'nowhere.ipu' "$box/nowhere.ipu"
check "a count that is none" exits 2 'while-count' --while-count 0 tests/text/adder.ipu
check "tiles without JSON" exits 2 'needs --json' --tiles tests/text/adder.ipu
cat > "$box/product.ipu" << 'END'
model {
  input x float[32,16];
  parameter w float[16,8];
  y = matmul(x, w);
  output z = y;
}
END
check "kernels as the host runs them" exits 0 '^matmul +[a-z]+ +[12] +1 +[0-9]+ +0 B +a:plain b:plain out:plain$' --host "$box/product.ipu"
check "their sum" exits 0 '^[12] kernels, 0 B turned$' --host "$box/product.ipu"
check "kernels as JSON" exits 0 '"layout": "plain"' --host --json "$box/product.ipu"
check "those of a graph" exits 0 '^2 kernels' --host tests/text/control.ipu
check "the host has no tiles" exits 2 'prices nothing' --host --json --tiles "$box/product.ipu"
check "a file to write to" "$ipu" profile tests/text/adder.ipu -o "$box/report"
check "which has the report" grep -q '^Memory' "$box/report"

# json_of FILE: the profile of a graph, or of a run that was measured.
json_of()
{
    case $1 in
        *.ipu) "$ipu" profile --json --tiles "$1" > "$box/profile.json" ;;
        *) "$1" "$box/profile.json" > "$box/log" 2>&1 ;;
    esac
}

if python3 -c 'import jsonschema' 2> /dev/null; then
    for file in tests/text/adder.ipu tests/text/control.ipu tests/text/views.ipu "$box/full.ipu" \
        "${BUILD:-build}/tests/profile_times_test"; do
        if [ ! -e "$file" ]; then continue; fi # a tree in which tests were not built
        rm -f "$box/profile.json"
        json_of "$file"
        check "JSON of $(basename "$file") follows the schema" \
            python3 - docs/profile-schema.json "$box/profile.json" << 'END'
import json, sys, jsonschema
schema, profile = (json.load(open(path)) for path in sys.argv[1:])
jsonschema.Draft7Validator.check_schema(schema)
jsonschema.validate(profile, schema, cls=jsonschema.Draft7Validator)
END
    done
else
    skip "JSON against its schema: python3 has no jsonschema"
fi

# Lines "name value certainty" of the table of defaults and of the manual.
sed -n 's/^DEFAULT(\([a-z_]*\), *\([0-9]*\), "[^"]*", \([A-Z]*\),.*/\1 \2 \3/p' \
    src/cost/defaults.inc > "$box/table"
sed -n 's/^| `\([a-z_]*\)` | \([0-9]*\) | [^|]* | \([a-z]*\) |.*/\1 \2 \U\3/p' docs/cost.md > "$box/manual"
check "there are defaults" test -s "$box/table"
check "the manual has them all" diff "$box/table" "$box/manual"

check_end
