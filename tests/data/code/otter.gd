@tool
class_name Otter
extends Node2D
## An otter that dives.
##
## It floats on its back.

## Says that a shell was opened.
signal opened(shell: int)

enum Mood { PLAYFUL, ASLEEP }

const DEPTHS := {
	"river": 3,
	"sea": 30,
}

@export var name_tag: String = "Otto"

var depth: int:
	get:
		return depth
	set(value):
		depth = value

func _ready() -> void:
	var twice = func(n): return n * 2
	dive(twice.call(1))

## Dives to a depth,
## if it is awake.
@rpc("any_peer")
func dive(to: int, slowly := false) -> bool:
	if slowly:
		await get_tree().create_timer(1).timeout
	return to > 0

static func heavier(a: Otter, b: Otter) -> Otter:
	return a if a.weight > b.weight else b

## A shell to open.
class Shell extends Resource:
	var size = 2

	func _init(s):
		size = s

	# Cracks it.
	func crack() -> void:
		size = 0

func float_away():
	pass
