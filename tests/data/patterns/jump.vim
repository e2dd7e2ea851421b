" Jumps to the definition.
function! jump#to(name) abort
  if a:name == "x" | return | endif
  call search(a:name)
endfunction
command! -nargs=1 JumpTo call jump#to(<q-args>)
