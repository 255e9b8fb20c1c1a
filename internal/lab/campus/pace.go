// SPDX-License-Identifier: Apache-2.0

package campus

import "time"

// pace is how fast things go in the campus. A border router whose processor is emulated may stand still for seconds
// while the host does something else, and nothing must take that for a failure.
type pace struct {
	bfd         bool          // between the border and the ISPs; without it BGP's hold time finds failures
	holdTime    time.Duration // of BGP, when there is no BFD
	ospfDead    time.Duration
	probeRate   int           // packets per second, over all destinations
	underway    time.Duration // that one of them may take
	restartRate float64       // packets per second
	patience    int           // how many times longer than usual is waited for what has to happen
}

var (
	native   = pace{bfd: true, ospfDead: 4 * time.Second, probeRate: 1000, underway: 100 * time.Millisecond, restartRate: 100_000, patience: 1}
	emulated = pace{holdTime: 15 * time.Second, ospfDead: 20 * time.Second, probeRate: 100, underway: 3 * time.Second, restartRate: 100, patience: 8}
)

func (p pace) wait(usual time.Duration) time.Duration { return usual * time.Duration(p.patience) }

// detection says how failures of a peer are found.
func (p pace) detection() string {
	if p.bfd {
		return "BFD"
	}
	return "hold time " + p.holdTime.String()
}
