//go:build race

package nacossource

const raceDetector = true
