// SPDX-License-Identifier: Apache-2.0

package bloom

import "math"

// falsePositives is the rate of false positives when so many keys are in the filter.
//
// Classic (Bloom): a place is taken with probability 1 - (1 - 1/m)^(k n), and k taken ones are found.
//
// Blocked (Putze, Sanders, Singler 2007, section 3): the number of keys in a block is a random one,
// Poisson distributed, and crowded blocks weigh more than empty ones. A block has so few places that how many are
// taken also spreads noticeably: that distribution is followed key by key.
func (s shape) falsePositives(keys int) float64 {
	if s.blocks == 0 {
		free := math.Exp(float64(s.hashes) * float64(keys) * math.Log1p(-1/float64(s.places)))
		return math.Pow(1-free, float64(s.hashes))
	}
	perBlock := int(s.places / s.blocks)
	mean := float64(keys) / float64(s.blocks)
	most := int(mean + 10*math.Sqrt(mean) + 20)
	o := newOccupancy(perBlock)
	rate := 0.0
	for n := range most + 1 {
		gamma, _ := math.Lgamma(float64(n + 1))
		rate += math.Exp(float64(n)*math.Log(mean)-mean-gamma) * o.allTaken(s.hashes)
		for range s.hashes {
			o.throw()
		}
	}
	return rate
}

// occupancy is the distribution of how many places are taken after some were picked at random.
type occupancy []float64

func newOccupancy(places int) occupancy {
	o := make(occupancy, places+1)
	o[0] = 1
	return o
}

// throw takes one more place at random.
func (o occupancy) throw() {
	places := float64(len(o) - 1)
	for taken := len(o) - 1; taken >= 0; taken-- {
		o[taken] *= float64(taken) / places
		if taken > 0 {
			o[taken] += o[taken-1] * (places - float64(taken-1)) / places
		}
	}
}

// allTaken is the probability that so many places picked at random are all taken.
func (o occupancy) allTaken(hashes uint32) float64 {
	sum, places := 0.0, float64(len(o)-1)
	for taken, p := range o {
		sum += p * math.Pow(float64(taken)/places, float64(hashes))
	}
	return sum
}
