import { open } from "node:fs/promises";
import { BerthError } from "../../base/errors.ts";

const MAGIC = "GGUF";

/**
 * Throws `model_unusable` if the file does not begin as GGUF files do. The assistant checks the rest when it loads the
 * file, which may be much later. `title` names the file in the message.
 */
export async function assertGgufFile(path: string, title: string): Promise<void> {
  const file = await open(path, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MAGIC.length), 0, MAGIC.length, 0);
    if (buffer.toString("latin1", 0, bytesRead) === MAGIC) return;
  } finally {
    await file.close();
  }
  throw new BerthError("model_unusable", `${title} is not a GGUF file`, {
    hint: "choose a GGUF file of the model: its name usually ends in .gguf",
  });
}
