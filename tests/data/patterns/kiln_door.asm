        bits 16
%macro wait_ticks 1
        mov cx, %1
%endmacro

; Opens the kiln door once it is cool.
; In: AX = temperature
open_door:
        cmp ax, 60
        ja .too_hot
        call release_latch
.too_hot:
        ret

release_latch:
        out 0x60, al
again:
        loop again
        ret

        section .data
warning: db "open: hot", 0

Chime PROC
        ret
Chime ENDP
