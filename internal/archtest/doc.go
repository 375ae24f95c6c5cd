// Package archtest HOLDS THE HOUSE UP: its tests fail when an import points upward, when a
// third-party library turns up outside its folder, or when a page names what is gone. It
// has no code that anything else may use.
package archtest
