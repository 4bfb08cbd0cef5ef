"""Policy gradient on many carts that each balance a pole."""
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class Carts:
    """A batch of carts, moved together: position, speed, angle, angular speed."""

    def __init__(self, count, rng):
        self.count, self.rng = count, rng
        self.state = None

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, (self.count, 4))
        return self.state.astype(np.float32)

    def step(self, actions):
        x, v, angle, spin = self.state.T
        force = np.where(actions == 1, 10.0, -10.0)
        pull = (force + 0.05 * spin ** 2 * np.sin(angle)) / 1.1
        spin_change = (9.8 * np.sin(angle) - np.cos(angle) * pull) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        v_change = pull - 0.05 * spin_change * np.cos(angle) / 1.1
        self.state = np.stack([x + 0.02 * v, v + 0.02 * v_change, angle + 0.02 * spin, spin + 0.02 * spin_change], 1)
        fallen = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.21)
        fresh = self.rng.uniform(-0.05, 0.05, (self.count, 4))
        self.state = np.where(fallen[:, None], fresh, self.state)
        return self.state.astype(np.float32), np.where(fallen, 0.0, 1.0).astype(np.float32), fallen


class ActorCritic(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.actor = nn.Linear(width, 2)
        self.critic = nn.Linear(width, 1)

    def forward(self, states):
        h = self.body(states)
        return self.actor(h), self.critic(h).squeeze(-1)


def rollout(env, model, states, horizon):
    all_states, all_actions, all_rewards, all_ends = [], [], [], []
    with torch.no_grad():
        for _ in range(horizon):
            logits, _ = model(torch.from_numpy(states))
            probability = torch.softmax(logits, 1)[:, 1].numpy()
            actions = (np.random.rand(env.count) < probability).astype(np.int64)
            all_states.append(states)
            all_actions.append(actions)
            states, rewards, ends = env.step(actions)
            all_rewards.append(rewards)
            all_ends.append(ends)
    return states, np.stack(all_states), np.stack(all_actions), np.stack(all_rewards), np.stack(all_ends)


def discounted(rewards, ends, last, gamma):
    returns = np.zeros_like(rewards)
    running = last
    for t in range(len(rewards) - 1, -1, -1):
        running = rewards[t] + gamma * running * ~ends[t]
        returns[t] = running
    return returns


def main(updates=3000, carts=128, horizon=32, gamma=0.98):
    torch.manual_seed(0)
    np.random.seed(0)
    env = Carts(carts, np.random.default_rng(0))
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    states = env.reset()
    mean_length = 0.0
    for update in range(updates):
        states, seen, actions, rewards, ends = rollout(env, model, states, horizon)
        with torch.no_grad():
            last = model(torch.from_numpy(states))[1].numpy()
        returns = torch.from_numpy(discounted(rewards, ends, last, gamma))
        logits, values = model(torch.from_numpy(seen))
        policy = Categorical(logits=logits, validate_args=False)
        advantage = returns - values.detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        policy_loss = -(policy.log_prob(torch.from_numpy(actions)) * advantage).mean()
        value_loss = (returns - values).pow(2).mean()
        loss = policy_loss + 0.01 * value_loss - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean_length = rewards.size / max(1, ends.sum())
        if update % 20 == 0:
            print(f'update {update:4d}  steps between falls {mean_length:.1f}', flush=True)


if __name__ == '__main__':
    main()
