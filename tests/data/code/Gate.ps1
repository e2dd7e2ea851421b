<#
.SYNOPSIS
Opens and closes the gate.
#>
param([string]$Name)

function Open-Gate {
    <#
    .SYNOPSIS
    Opens the gate
    for a while.
    .PARAMETER Seconds
    How long.
    #>
    param([int]$Seconds = 3)
    Invoke-Motor $Seconds
}

# Closes it.
function global:Close-Gate([switch]$Slowly) {
    Invoke-Motor -1
}

class Gate : Door {
    [int]$Width

    Gate([int]$width) { $this.Width = $width }

    [void] Lock([string]$key) { Close-Gate }
}

enum State { Open; Closed }
