(* Presses cider. *)
open Printf

(** Presses a basket of apples. *)
let press basket =
  let juice = basket * 2 in
  juice

let rec rest n = if n = 0 then 0 else rest (n - 1)
and count = function [] -> 0 | _ :: tail -> 1 + count tail

type apple = Sweet | Sour of float

exception Empty of string

let sorts = [
  "Boskoop";
  "Jonathan";
]

module Barrel = struct
  (* Fills it. *)
  let fill litres = litres + 1
end

module type Store = sig
  val keep : int -> unit
end

class cellar depth = object
  method deep = depth > 3
end

let () = printf "%d\n" (press 3)
