//go:build !race

package drills

const raceDetector = false
