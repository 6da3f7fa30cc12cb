// Installing t4lint where it is missing: offered, shown, never silent.

import { execFile } from "node:child_process";
import * as vscode from "vscode";
import type { Found } from "./interpreter";

const INSTALL = "Install";
const CHOOSE = "Choose the Python";
const NEVER = "Not in this workspace";
const KEY = "t4lint.neverInstall";
const OLDEST: [number, number] = [3, 10]; // that t4lint runs on

/** Ask whether to install t4lint into an environment, once in a workspace that does not want it; true when it was installed. */
export async function offerInstall(found: Found, memory: vscode.Memento, asked: boolean): Promise<boolean> {
  if (memory.get<boolean>(KEY) && !asked) {
    return false;
  }
  const what = "It checks training scripts for NVIDIA T4 GPUs.";
  const [major, minor] = found.release;
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    const needs = `t4lint needs Python ${OLDEST.join(".")} or later, and ${found.python} is ${major}.${minor}. ${what}`;
    await answered(await vscode.window.showInformationMessage(needs, CHOOSE, NEVER), memory);
    return false;
  }
  const text = `t4lint is not installed in ${found.python}. ${what}`;
  const answer = await vscode.window.showInformationMessage(text, INSTALL, CHOOSE, NEVER);
  await answered(answer, memory);
  return answer === INSTALL ? install(found) : false;
}

async function answered(answer: string | undefined, memory: vscode.Memento): Promise<void> {
  if (answer === CHOOSE) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "t4lint.interpreter");
  } else if (answer !== undefined) {
    await memory.update(KEY, answer === NEVER);
  }
}

/** Install in a terminal that can be read; with uv where the environment has no pip. */
async function install(found: Found): Promise<boolean> {
  const wanted = "t4lint[lsp]";
  let process = new vscode.ProcessExecution(found.python, ["-m", "pip", "install", wanted]);
  if (!found.pip) {
    if (!(await runs("uv", ["--version"]))) {
      void vscode.window.showErrorMessage(
        `${found.python} has no pip, and there is no uv in the PATH. Install "${wanted}" there, then run "t4lint: Restart the server".`,
      );
      return false;
    }
    process = new vscode.ProcessExecution("uv", ["pip", "install", "--python", found.python, wanted]);
  }
  const scope = vscode.workspace.workspaceFolders ? vscode.TaskScope.Workspace : vscode.TaskScope.Global;
  const task = new vscode.Task({ type: "t4lint" }, scope, "install", "t4lint", process);
  task.presentationOptions = { reveal: vscode.TaskRevealKind.Always };
  const code = await finished(task);
  if (code !== 0) {
    void vscode.window.showErrorMessage("t4lint could not be installed: the terminal says why.");
  }
  return code === 0;
}

function runs(program: string, args: string[]): Promise<boolean> {
  return new Promise((resolve) => execFile(program, args, { timeout: 20_000 }, (error) => resolve(!error)));
}

/** The exit code of a task; undefined where it was stopped. */
async function finished(task: vscode.Task): Promise<number | undefined> {
  return new Promise((resolve) => {
    // Listening begins before the task: one that fails at once has ended by the time it is known to run.
    const listeners = [
      vscode.tasks.onDidEndTaskProcess((event) => event.execution.task.source === "t4lint" && end(event.exitCode)),
      vscode.tasks.onDidEndTask((event) => event.execution.task.source === "t4lint" && setTimeout(() => end(undefined), 500)),
    ];
    const end = (code: number | undefined): void => {
      for (const listener of listeners) {
        listener.dispose();
      }
      resolve(code);
    };
    vscode.tasks.executeTask(task).then(undefined, () => end(undefined));
  });
}
