# For each number on standard input, how many steps it takes to 1: halved when even, else tripled and one more.
while read -r n; do
	case $n in
	'' | *[!0-9]* | 0*)
		echo '{"error": "not a number from 1"}'
		continue
		;;
	esac
	steps=0
	while [ "$n" -ne 1 ]; do
		if [ $((n % 2)) -eq 0 ]; then n=$((n / 2)); else n=$((3 * n + 1)); fi
		steps=$((steps + 1))
	done
	echo "{\"result\": $steps}"
done
