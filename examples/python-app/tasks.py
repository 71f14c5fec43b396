"""An app with tools for the assistant, written with the official Python SDK of MCP.

Start it in a session, or let the assistant start it as the systemd unit `org.example.Tasks.service`:

    pip install mcp==2.3.0
    cp org.example.Tasks.json ~/.local/share/assistant/manifests/
    python3 tasks.py

docs/tool-manifests.md explains the socket, the manifest and the results.
"""

import asyncio
import os
import signal
import socket
import sys
import uuid
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from pydantic import BaseModel, Field, TypeAdapter

APP_ID = "org.example.Tasks"
# An upper limit in bytes: the assistant sends no longer line.
LINE_BYTES_MAX = 8 * 1024 * 1024


class Task(BaseModel):
    id: str
    text: str


class TaskList(BaseModel):
    tasks: list[Task]


tasks_json = TypeAdapter(list[Task])
data_home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
store = data_home / APP_ID / "tasks.json"
server = MCPServer(APP_ID)


def load() -> list[Task]:
    return tasks_json.validate_json(store.read_bytes()) if store.exists() else []


def save(tasks: list[Task]) -> None:
    store.parent.mkdir(parents=True, exist_ok=True)
    new = store.with_suffix(".new")
    new.write_bytes(tasks_json.dump_json(tasks))
    new.replace(store)


# The type of a result becomes its structuredContent. The manifest's `$result.id` refers to a field of it.


@server.tool()
def add_task(text: Annotated[str, Field(min_length=1, max_length=200)]) -> Task:
    """Adds a task to the list."""
    task = Task(id=str(uuid.uuid4()), text=text)
    save([*load(), task])
    return task


@server.tool()
def list_tasks() -> TaskList:
    """Lists all tasks."""
    return TaskList(tasks=load())


@server.tool()
def remove_task(id: str) -> Task:
    """Removes a task from the list."""
    tasks = load()
    for task in tasks:
        if task.id == id:
            save([other for other in tasks if other.id != id])
            return task
    raise ToolError(f"there is no task {id}")  # The SDK hides the text of other exceptions.


class Output:
    """Gives a connection the two methods that stdio_server calls on its output."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer

    async def write(self, text: str) -> None:
        self.writer.write(text.encode())

    async def flush(self) -> None:
        await self.writer.drain()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serves MCP on one connection, with the same framing as on standard input and output: one message per line."""
    # The SDK serves other streams than its own only through the server that it wraps.
    wrapped = server._lowlevel_server
    try:
        async with stdio_server(reader, Output(writer)) as (incoming, outgoing):
            await wrapped.run(incoming, outgoing, wrapped.create_initialization_options())
    except* OSError:
        pass  # The assistant has closed the connection.
    finally:
        writer.close()


def is_running(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


async def main() -> None:
    runtime_dir = os.environ.get("XDG_RUNTIME_DIR")
    if not runtime_dir:
        sys.exit("error: XDG_RUNTIME_DIR is not set: start this in a session")
    folder = Path(runtime_dir, "assistant/apps")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{APP_ID}.sock"
    if is_running(path):
        sys.exit(f"error: {APP_ID} is running already")
    path.unlink(missing_ok=True)  # A crash leaves it behind.
    await asyncio.start_unix_server(serve, path, limit=LINE_BYTES_MAX)
    print(f"{APP_ID} listens", file=sys.stderr, flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    path.unlink(missing_ok=True)


asyncio.run(main())
