# frozen_string_literal: true

# Plants and their beds.
module Garden
  # rubocop:disable Metrics/ClassLength

  # A bed of plants.
  class Bed < Base
    attr_reader :plants

    LIMIT = 12

    # Plants one more.
    #
    # Returns the bed.
    def plant(name, count: 1)
      @plants << "größe #{name}"
      self
    end

    def empty?; end

    def self.wide(size)
      new(size)
    end

    class << self
      def narrow
        wide(1)
      end
    end

    def ==(other)
      plants == other.plants
    end

    def count=(value)
      @count = value
    end
  end

  class Errors::Empty < StandardError; end
end

=begin
Waters everything.
=end
def water(beds)
  beds.each { |bed| bed.plant(:water) }
end
