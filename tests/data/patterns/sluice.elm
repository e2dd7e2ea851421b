module Sluice exposing (..)
import Html
{-| State of a sluice. -}
type Msg
    = Open
    | Close

{-| Opens the sluice. -}
update : Msg -> Int -> Int
update msg n =
    case msg of
        Open -> n
        Close -> 0
