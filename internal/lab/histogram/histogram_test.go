// SPDX-License-Identifier: Apache-2.0

package histogram

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestEveryDurationIsWithinOnePercentOfItsBucket(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		ns := random.Uint64() >> (27 + random.IntN(37))
		got := float64(middle(Bucket(ns)))
		if off := math.Abs(got - float64(ns)); off > float64(ns)/128+0.5 {
			t.Fatalf("%d ns stands as %g", ns, got)
		}
	}
	for b := 1; b < Buckets; b++ {
		if Bucket(middle(b)) != b || middle(b) <= middle(b-1) {
			t.Fatalf("bucket %d: middle %d is in bucket %d", b, middle(b), Bucket(middle(b)))
		}
	}
	if Bucket(math.MaxUint64) != Buckets-1 {
		t.Fatal("the longest duration is not in the last bucket")
	}
}

func TestQuantilesAgreeWithSortedDurations(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var h, half Histogram
	all := make([]time.Duration, 50_001)
	for i := range all {
		all[i] = time.Duration(math.Exp(random.Float64() * 20))
		if i%2 == 0 {
			h.Record(all[i])
		} else {
			half.Record(all[i])
		}
	}
	h.Add(&half)
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := float64(all[int(q*float64(len(all)-1))])
		if got := float64(h.Quantile(q)); math.Abs(got-want) > want*0.012+1 {
			t.Errorf("quantile %v: %v, sorted durations say %v", q, got, want)
		}
	}
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var back Histogram
	if err := json.Unmarshal(data, &back); err != nil || back != h {
		t.Fatalf("JSON does not bring it back: %v", err)
	}
	if json.Unmarshal([]byte("[[2048,1]]"), &back) == nil {
		t.Fatal("a bucket that doesn't exist was accepted")
	}
}
