require "http"
# A buoy in the bay.
class Buoy
  # Rings its bell.
  def ring(times : Int32) : Nil
    times.times do
      puts "end # {"
    end
  end
  def self.find?(id) ; end
end
