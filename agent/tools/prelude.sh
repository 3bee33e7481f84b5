# Read by bash before a command (BASH_ENV), so that nothing is added to the command itself. At the end the status, the
# folder and what is exported go to a descriptor of their own. A command that sets its own EXIT trap keeps it; its folder
# and variables are then not learned.
if [ "${DFLASH_BASH_ENV+set}" ]; then
    export BASH_ENV=$DFLASH_BASH_ENV
    unset DFLASH_BASH_ENV
    . "$BASH_ENV"
else
    unset BASH_ENV
fi
trap '{ DFLASH_STATE=$?; builtin set +x; } 2>/dev/null
{ builtin printf "%s\0" "$DFLASH_STATE"; builtin pwd; builtin printf "\0"; builtin export -p; } 2>/dev/null >&'"$DFLASH_STATE" EXIT
unset DFLASH_STATE
