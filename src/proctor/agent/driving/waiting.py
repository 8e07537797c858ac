"""Whether there is anything to do for a run, to stay for, or only to wait for."""

from proctor.agent.driving.desk import Desk


def stays(desk: Desk) -> bool:
    """Whether there is something to stay for. A run that cleans up is held until the end of its
    time, or everybody who looks would claim it again."""
    under_way = desk.busy or desk.dispatcher.stays() or came_in(desk)
    return under_way or desk.view.state == "finishing"


def only_waits(desk: Desk) -> bool:
    """Whether another look would find nothing to do: all that is open is executed here or asked
    for, and nothing has come in."""
    view = desk.view
    if view.state != "running" or view.open_waits or desk.recorder.pending:
        return False
    if desk.mail or desk.leave or came_in(desk):
        return False
    if not view.open_actions:
        return desk.turn is not None
    running = desk.dispatcher.running
    open_ = view.open_actions
    return len(open_) == len(running) and all(action_id in running for action_id in open_)


def came_in(desk: Desk) -> bool:
    """Whether something was handed in that is not taken in yet."""
    return bool(desk.attempts or desk.replies or desk.commands or desk.judged)
