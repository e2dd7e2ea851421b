// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {IPier} from "./IPier.sol";

/// @notice The tide is too low.
error LowTide(uint256 depth);

type Metres is uint256;

using {deeper as +} for Metres global;

/// @dev Adds depths.
function deeper(Metres a, Metres b) pure returns (Metres) {
    return Metres.wrap(Metres.unwrap(a) + Metres.unwrap(b));
}

uint256 constant REACH =
    4000
    * 2;

/**
 * @title Harbor
 * @notice Keeps berths for ships.
 * @dev Ships pay when they leave.
 */
abstract contract Harbor is Base, IHarbor(4) {
    using Tides for uint256;

    /// @notice A ship came in.
    event Arrived(address indexed ship, uint256 berth);
    error Full();

    struct Berth {
        address ship;
        uint256 depth;
    }

    enum Flag { Red, Green }

    mapping(address ship => Berth) private _berths;

    // Only the master may.
    modifier onlyMaster() {
        require(msg.sender == master, "not the master");
        _;
    }

    constructor(address master_) Base(master_) {
        master = master_;
    }

    /**
     * @notice Moors a ship.
     * @param ship who comes in
     */
    function moor(address ship, uint256 /* length */)
        external
        payable
        override(Base, IHarbor)
        onlyMaster
        returns (uint256 berth)
    {
        assembly {
            function first(a) -> b { b := a }
            berth := first(1)
        }
        emit Arrived(ship, berth);
    }

    function depth() public view virtual returns (uint256);

    receive() external payable {}

    fallback(bytes calldata input) external returns (bytes memory) {
        return input;
    }
}

interface IHarbor {
    function depth() external view returns (uint256);
}

/// Tides by the hour.
library Tides {
    function rise(uint256 hour) internal pure returns (uint256) {
        return hour.mul(2);
    }
}
