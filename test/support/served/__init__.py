"""Commands of this project in forks of one process that has imported what they import.

Importing takes most of the time of most commands that tests give: 1.3 CPU seconds of each. A folder
for $PATH holds commands of the same names (`client`), which hand their arguments, folder and
streams to a server (`server`); that forks, and the fork runs the command (`commands`). So each is a
process of its own as before; only importing is shared. A command that begins in another state than
the server did, such as with another PYTHONPATH or a limit, is run as a process that starts anew.

RC_SERVE=0 turns all of it off. What starting does is tested by test/tools, whose commands always
start anew.
"""
