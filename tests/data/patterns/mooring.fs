module Harbor.Mooring
open System

/// <summary>Moors a ship.</summary>
let moor (ship: string) berth =
    printfn "%s" ship
    berth + 1

type Berth =
    { Name: string
      Free: bool }
    /// Frees the berth.
    member this.Release() =
        { this with Free = true }

let limit = 3

/// Frees a berth.
let free ship berth =
    moor ship berth - 1
