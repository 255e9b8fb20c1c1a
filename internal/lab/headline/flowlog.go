// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"context"
	"time"

	"minne/internal/lab/bench/flowlogbench"
	"minne/internal/lab/statistics"
)

// logged are the figures of the flow log. Its records are those of a campus of 25,000 hosts behind 64 public addresses.
var logged = []definition{
	{"flowlog.bytes", "bytes on disk of a flow record with NAT, in a log of 4 million", "bytes", "-", logBytes},
	{"flowlog.query.s", "time to answer who had a public address and port, without a time, over 100 million records: of 4 million, the part that grows with the log times 25", "s", "the log in the disk cache", logQuery},
}

const (
	loggedRecords = 4_000_000
	questions     = 20 // in a round
)

// Log returns a full flow log.
func (b *Bench) Log(ctx context.Context) (*flowlogbench.Log, error) {
	return b.log.get(func() (*flowlogbench.Log, error) {
		b.release()
		b.Progress("writing a flow log of 4 million records")
		l, err := flowlogbench.Fill(ctx, "", loggedRecords)
		if err != nil {
			return nil, err
		}
		b.teardowns = append(b.teardowns, l.Close)
		return l, nil
	})
}

func logBytes(ctx context.Context, bench *Bench) (Measured, error) {
	l, err := bench.Log(ctx)
	if err != nil {
		return Measured{}, err
	}
	n := l.PerRecord()
	return Measured{Value: n, Low: n, High: n, AALow: n, AAHigh: n}, nil
}

// logQuery asks questions in rounds. The same questions once more are the A/A: the difference of both, in seconds.
func logQuery(ctx context.Context, bench *Bench) (Measured, error) {
	l, err := bench.Log(ctx)
	if err != nil {
		return Measured{}, err
	}
	var times, differences []float64
	for round := range max(bench.Rounds, 1) {
		var sums [2]float64
		for n := range 2 * questions {
			which := round*questions + n%questions
			all, _, err := l.Ask(ctx, which, false)
			if err != nil {
				return Measured{}, err
			}
			grows, err := l.AskInVain(ctx, which)
			if err != nil {
				return Measured{}, err
			}
			sums[n/questions] += (all - grows + time.Duration(float64(grows)*1e8/float64(l.Records))).Seconds() / questions
		}
		times, differences = append(times, sums[0]), append(differences, sums[1]-sums[0])
	}
	return measured(statistics.Interval(times), statistics.Interval(differences)), nil
}
