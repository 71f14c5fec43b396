import { expect, test } from "vitest";
import { AssistantProcess, berth } from "../support/assistant-process.ts";
import { Screen } from "../support/screen.ts";

const interrupt = "\u0003";

test("a chat at a terminal shows the input and the answer, accepts a paste, and handles Ctrl-C", async () => {
  await using daemon = await AssistantProcess.start(["--engine", "stub"]);
  using screen = new Screen(["chat", "--assistant-url", daemon.ready.url]);
  await screen.until(/stub, up to 8192 tokens.*\r\n.*>>> /s);
  screen.type("Who are you?\r");
  expect(await screen.until(/>>> /)).toMatch(/Who are you\?\r+\n.*Stub answer: .*\r\n/s);
  screen.type("\u001b[200~one\rtwo\u001b[201~");
  // A paste does not send the message: the pasted text waits for Enter.
  await screen.until(/\.\.\. two/);
  screen.type("\r");
  await screen.until(/Stub answer: .*>>> /s);
  screen.type(interrupt);
  await screen.until(/press Ctrl-C again/);
  screen.type(interrupt);
  expect(await screen.ended).toBe(0);

  const { code, stdout, stderr } = await berth(
    ["ledger", "tail", "--data-dir", daemon.dataDir, "--json"],
    {},
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout.match(/"inference\.generate"/g)).toHaveLength(2);
});

test("`berth chat` finds the assistant by its data directory, and writes only the answer to a pipe", async () => {
  await using daemon = await AssistantProcess.start(["--engine", "stub"]);
  const found = await berth(["chat", "Well then", "--data-dir", daemon.dataDir]);
  expect(found).toMatchObject({ code: 0, stderr: "" });
  expect(found.stdout).toMatch(/^Stub answer: [^\n]+\n$/);
  await daemon.stop();
  const gone = await berth(["chat", "Well then", "--data-dir", daemon.dataDir, "--port", "9"]);
  expect(gone).toMatchObject({ code: 1, stdout: "" });
  expect(gone.stderr).toMatch(/no assistant answers at http:\/\/127\.0\.0\.1:9\ntry: .*berth up/);
});
