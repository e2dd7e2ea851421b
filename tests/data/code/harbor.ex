defmodule Fixture.Harbor do
  @moduledoc """
  Ships and their berths.
  """
  use GenServer
  alias Fixture.Ship

  @berths 4

  @doc """
  Lets a ship in.
  """
  @spec dock(Ship.t(), integer) :: boolean
  def dock(ship, berth) when berth > 0 do
    ship.length < @berths * berth
  end

  def dock(_ship, 0), do: false

  defp full?(ships), do: length(ships) == @berths

  defmacro each(ships, do: block) do
    quote do: Enum.each(unquote(ships), fn _ -> unquote(block) end)
  end

  defmodule Berth do
    defstruct [:number]
  end
end

defimpl String.Chars, for: Fixture.Ship do
  def to_string(ship), do: ship.name
end
