--- Lanterns along a path.
local M = {}

local COLORS = {
  red = 1,
  green = 2,
}

--- Lights a lantern.
-- @param name which
function M.light(name)
  return COLORS[name]
end

function Lantern:swing(angle)
  self.angle = angle
end

-- Puts them all out.
local function douse() end

M.relight = function(name)
  return M.light(name)
end

local handlers = {
  wind = function(speed) return speed > 5 end,
  rain = 3,
}

return M
