// Adds two bits.
module adder(input a, input b, output s);
assign s = a ^ b;
endmodule
