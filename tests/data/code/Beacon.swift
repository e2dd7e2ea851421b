import Foundation

/// Sends light.
@objc public class Beacon: Tower {
    private let height: Double

    public init(height: Double) {
        self.height = height
    }

    deinit { off() }

    /// Turns the light on.
    /// - Parameter seconds: for how long
    public func on(seconds: Int) -> Bool {
        return seconds > 0
    }

    enum Color { case red, green }
}

struct Flash { let length: Int }

extension Beacon: Visible {
    func range() -> Double { height * 3.57 }
}

protocol Visible {
    func range() -> Double
}

typealias Signal = [Flash]

let morse = [
    "s": "...",
    "o": "---",
]

// Waits between two flashes.
func pause(after flash: Flash) async throws {}
