# fish completion for evalfleet
function __evalfleet_candidates
    set -l words (commandline -opc)
    evalfleet completion fish -- $words[2..-1] "$(commandline -ct)" 2>/dev/null
end
complete -c evalfleet -a '(__evalfleet_candidates)'
