// SPDX-License-Identifier: Apache-2.0

package platform

// Estimate is what the platform can route.
type Estimate struct {
	Text string `json:"text"`
}
