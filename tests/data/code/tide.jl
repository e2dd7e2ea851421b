# Heights of the water.
module Tides

using Dates
export height

"""
    height(tide, time)

Height of the water at a time, in metres.
"""
function height(tide::Tide, time)::Float64
    tide.mean + tide.range * sin(time)
end

# Twice a day.
period() = 12.4

Base.show(io::IO, tide::Tide) = print(io, tide.mean)

scaled(x::T) where {T<:Real} = 2x

"What the water does at a place."
Base.@kwdef struct Tide{T} <: Water
    mean::T
    range::T
end

abstract type Water end

macro flood(expression)
    esc(expression)
end

const PLACES = [
    "quay",
    "lock",
]

@inline function low(x)
    x
end

end
