/** True while a process of that id is there, whoever it belongs to. */
export function isProcessRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // A process of another user is alive too.
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
