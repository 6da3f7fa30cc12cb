// Which Python t4lint runs in: the one of the settings, the workspace's own environment, or that of the PATH.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";

const ENVIRONMENTS = [".venv", "venv", "env"];
const PROBE = "import sys, t4lint, pygls; sys.stdout.write(t4lint.__version__)";

export interface Found {
  python: string;
  /** The version of t4lint there; undefined where it, or its extra `lsp`, is missing. */
  version: string | undefined;
}

/** The first interpreter that has t4lint, else the first that runs at all. */
export async function findInterpreter(): Promise<Found | undefined> {
  let first: Found | undefined;
  for (const python of candidates()) {
    const version = await probe(python);
    if (version !== null) {
      const found = { python, version };
      if (version !== undefined) {
        return found;
      }
      first ??= found;
    }
  }
  return first;
}

function* candidates(): Generator<string> {
  const configured = vscode.workspace.getConfiguration("t4lint").get<string>("interpreter", "");
  if (configured) {
    yield configured.replace(/^~(?=$|[/\\])/, os.homedir());
    return;
  }
  if (vscode.workspace.isTrusted) {
    for (const folder of vscode.workspace.workspaceFolders ?? []) {
      for (const name of ENVIRONMENTS) {
        const python = inEnvironment(path.join(folder.uri.fsPath, name));
        if (existsSync(python)) {
          yield python;
        }
      }
    }
  }
  yield process.platform === "win32" ? "python" : "python3";
  yield process.platform === "win32" ? "py" : "python";
}

function inEnvironment(folder: string): string {
  return process.platform === "win32" ? path.join(folder, "Scripts", "python.exe") : path.join(folder, "bin", "python");
}

/** The version of t4lint in an interpreter; undefined where it is not installed, null where nothing runs. */
function probe(python: string): Promise<string | undefined | null> {
  return new Promise((resolve) => {
    // Not from the workspace: a file t4lint.py in it would be imported.
    execFile(python, ["-c", PROBE], { cwd: os.tmpdir(), timeout: 20_000 }, (error, stdout) => {
      if (!error) {
        resolve(stdout.trim());
      } else {
        resolve(typeof error.code === "number" ? undefined : null);
      }
    });
  });
}
