val press : int -> int
(** Presses a basket of apples. *)

(** A kind of apple. *)
type apple = Sweet | Sour of float

exception Empty of string
