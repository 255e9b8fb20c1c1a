module minne/internal/lab/platform/peers/gopeers

go 1.25.0

require (
	github.com/FastFilter/xorfilter v0.4.2-0.20260120015552-4e5a4d9df65a
	github.com/bits-and-blooms/bloom/v3 v3.7.1
	github.com/gaissmai/bart v0.30.0
)

require github.com/bits-and-blooms/bitset v1.24.2 // indirect
