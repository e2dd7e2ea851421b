// Counts up.
module counter #(parameter W = 8)
(
  input clk
);
  function automatic [7:0] next(input [7:0] x);
    next = x + 1;
  endfunction
endmodule
