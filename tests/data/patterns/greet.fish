# Greets someone.
function greet --argument name
    if test -n "$name"
        echo "hi $name" # end
    end
end
