"""Uses the SDK as told: reads one JSON request a line, and answers it in one line."""

import asyncio
import json
import logging
import sys

from opensandbox.adapters.command_adapter import CommandsAdapter
from opensandbox.config import ConnectionConfig
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.sandboxes import SandboxEndpoint

TOKEN = "X-EXECD-ACCESS-TOKEN"


def shown(execution):
    return {
        "id": execution.id,
        "stdout": [message.text for message in execution.logs.stdout],
        "stderr": [message.text for message in execution.logs.stderr],
        "error": execution.error and f"{execution.error.name}: {execution.error.value}",
        "complete": execution.complete is not None,
        "exit_code": execution.exit_code,
    }


async def perform(commands, request):
    match request["do"]:
        case "run":
            opts = RunCommandOpts(background=request.get("background", False))
            return shown(await commands.run(request["command"], opts=opts))
        case "status":
            status = await commands.get_command_status(request["id"])
            return {"running": status.running, "exit_code": status.exit_code}
        case "logs":
            logs = await commands.get_background_command_logs(request["id"], request["cursor"])
            return {"text": logs.content, "cursor": logs.cursor}
        case "interrupt":
            await commands.interrupt(request["id"])
            return {}
        case "session":
            session = await commands.create_session()
            ran = [shown(await commands.run_in_session(session, line)) for line in request["lines"]]
            await commands.delete_session(session)
            return {"ran": ran}


async def answer(request):
    headers = {TOKEN: "secret"}
    endpoint = SandboxEndpoint(endpoint=request["server"], headers=headers)
    commands = CommandsAdapter(ConnectionConfig(protocol="http"), endpoint)
    try:
        return {"ok": await asyncio.wait_for(perform(commands, request), request["seconds"])}
    except asyncio.TimeoutError:
        return {"silent": True}
    except Exception as error:
        return {"raised": f"{type(error).__name__}: {error}"}


logging.disable()
for line in sys.stdin:
    print(json.dumps(asyncio.run(answer(json.loads(line)))), flush=True)
