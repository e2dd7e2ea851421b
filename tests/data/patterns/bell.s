/* Rings a bell: each hour once. */
        .text
        .globl  ring
        .type   ring, @function
ring:
        pushl %ebx              # the hour
1:      call strike
        jne 1b
        ret
        .size   ring, .-ring
