% Birds of the shore, and how many steps they take there.

classdef (Sealed) Heron < Bird & handle
    %HERON Waits for fish.
    %   It stands in shallow water.

    properties (Access = private)
        Patience (1,1) double = 3 % hours
        Name
    end

    events
        Caught
    end

    enumeration
        Grey (1)
    end

    methods
        function obj = Heron(name)
            obj.Name = name';
        end

        function value = get.Patience(obj)
            value = obj.Patience;
        end

        % Waits for the next fish.
        function [fish, varargout] = wait(obj, varargin)
            fish = cellfun(@(x) x.^2, varargin, 'UniformOutput', false);
        end
    end

    methods (Static)
        function heron = tallest(herons), heron = herons(end); end
    end
end

function y = steps(x)
%STEPS  Counts steps.
    arguments
        x (1,1) double
    end
    y = half(x);
    function z = half(w)
        z = w / 2;
    end
end
