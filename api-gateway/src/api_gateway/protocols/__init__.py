"""How clients reach the gateway: routes, which come down to statements, rows and questions of privilege."""
