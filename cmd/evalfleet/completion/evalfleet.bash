# bash completion for evalfleet
_evalfleet() {
    local IFS=$'\n'
    COMPREPLY=($(evalfleet completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _evalfleet evalfleet
