// t4lint as a command, for what is no question of the language server: fit, verify.

import { spawn } from "node:child_process";
import * as vscode from "vscode";

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Run `python -P -m t4lint ...` in a folder, until it ends or the person has enough of it. */
export function t4lint(
  python: string,
  args: readonly string[],
  cwd: string,
  cancelled: vscode.CancellationToken,
  said: (line: string) => void = () => undefined,
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    // Through a script of its own, so that no file of the folder stands in for a module of t4lint.
    const start = "import sys; sys.path[:] = [p for p in sys.path if p]; from t4lint.cli import main; sys.exit(main())";
    const child = spawn(python, ["-c", start, ...args], { cwd, env: { ...process.env, PYTHONIOENCODING: "utf-8" } });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
      said(text.trim().split("\n").pop() ?? "");
    });
    const stop = cancelled.onCancellationRequested(() => child.kill("SIGINT"));
    child.on("error", reject);
    child.on("close", (code) => {
      stop.dispose();
      resolve({ code, stdout, stderr });
    });
  });
}
