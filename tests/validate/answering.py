"""Answer questions line by line, in scripts beside this file that a runner's interpreter starts by path."""

import json
import sys


def answer_lines(derive, load=tuple):
    """Answer each line of standard input by what ``derive`` makes of it; standard output is kept for that.

    ``load`` gives what ``derive`` takes beside the question.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    loaded = load()
    for line in sys.stdin:
        try:
            answer = {"derived": derive(json.loads(line), *loaded)}
        except (Exception, SystemExit) as error:
            answer = {"refused": f"{type(error).__name__}: {error}"[:600]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
